-- CALL: step and its half; id, amount, content and whether it is an undo, of the move; at; limit, late_reserve, floor, cap and every of
-- the campaign; end_, of finish. Returns the state of this half; or {'content', content, half, state, when} of what is
-- recorded otherwise, {'missing'}, {'ended', state}, {'soon'} or {'money', what is free, what is above the floor}.
local half = CALL.half
local kept = redis.call('HGET', MOVE, CALL.id)
local row = kept and cmsgpack.unpack(kept)
if row and (row[1] ~= CALL.content or row[2] ~= half) then
    return {'content', row[1], row[2], row[3], row[4]}
end
local function keep(state, at)
    redis.call('HSET', MOVE, CALL.id, cmsgpack.pack({CALL.content, half, state, at}))
end
if CALL.step == 'finish' then
    if not row then
        return {'missing'}
    end
    if row[3] == 'sent' then
        keep(CALL.end_, row[4])
        if CALL.end_ == 'returned' then
            redis.call('HINCRBY', SUMS, 'received', whole(CALL.amount))
        end
        redis.call('SREM', SENT, CALL.id)
    elseif row[3] ~= CALL.end_ then
        return {'ended', row[3]}
    end
    return CALL.end_
end
if row then
    return row[3]
end
local state = 'sent'
if CALL.step == 'restore_give' or CALL.step == 'restore_take' then
    state = 'taken'
elseif half == 'take' then
    state = CALL.limit + CALL.amount <= CALL.cap and 'taken' or 'refused'
else
    local last = tonumber(redis.call('HGET', SUMS, 'gave_at') or '-inf')
    if not CALL.undo and CALL.at - last < CALL.every then
        return {'soon'}
    end
    local free, above = CALL.limit - committed() - math.max(0, CALL.late_reserve - sum('late')), CALL.limit - CALL.floor
    if CALL.amount > math.min(free, above) then
        return {'money', free, above}
    end
    redis.call('HSET', SUMS, 'gave_at', whole(math.max(CALL.at, last)))
    redis.call('SADD', SENT, CALL.id)
end
keep(state, CALL.at)
redis.call('RPUSH', MOVED, CALL.id)
if state ~= 'refused' then
    redis.call('HINCRBY', SUMS, half == 'give' and 'given' or 'received', whole(CALL.amount))
end
return state
