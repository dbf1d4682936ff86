-- CALL: step and its half; free, whether a restored ledger takes it, and held, how ids of what that holds back begin; id, amount, content and whether it is an undo, of the move; at; limit, late_reserve, floor, cap and every of
-- the campaign; end_, of finish. Returns the state of this half; or {'content', content, half, state, when} of what is
-- recorded otherwise, {'missing'}, {'held'}, {'ended', state}, {'soon'} or {'money', what is free, what is above the floor}.
local half = CALL.half
local kept = redis.call('HGET', MOVE, CALL.id)
local row = kept and cmsgpack.unpack(kept)
if row and (row[1] ~= CALL.content or row[2] ~= half) then
    return {'content', row[1], row[2], row[3], row[4]}
end
local function keep(state, at)
    redis.call('HSET', MOVE, CALL.id, cmsgpack.pack({CALL.content, half, state, at}))
end
if CALL.step == 'finish' and not row then
    return {'missing'}
end
for _, id in ipairs(CALL.free and {} or redis.call('SMEMBERS', SENT)) do
    if string.sub(id, 1, #CALL.held) == CALL.held then
        return {'held'}
    end
end
if CALL.step == 'finish' then
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
elseif CALL.step == 'refuse' then
    state = 'refused'
elseif half == 'take' then
    state = CALL.limit + CALL.amount <= CALL.cap and 'taken' or 'refused'
elseif CALL.step == 'give' then
    local last = tonumber(redis.call('HGET', SUMS, 'gave_at') or '-inf')
    if not CALL.undo and CALL.at - last < CALL.every then
        return {'soon'}
    end
    local free, above = CALL.limit - committed() - math.max(0, CALL.late_reserve - sum('late')), CALL.limit - CALL.floor
    if CALL.amount > math.min(free, above) then
        return {'money', free, above}
    end
end
if half == 'give' then
    local last = tonumber(redis.call('HGET', SUMS, 'gave_at') or '-inf')
    redis.call('HSET', SUMS, 'gave_at', whole(math.max(CALL.at, last)))
end
if state == 'sent' then
    redis.call('SADD', SENT, CALL.id)
end
keep(state, CALL.at)
redis.call('RPUSH', MOVED, CALL.id)
if state ~= 'refused' then
    redis.call('HINCRBY', SUMS, half == 'give' and 'given' or 'received', whole(CALL.amount))
end
return state
