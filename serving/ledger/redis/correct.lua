-- CALL: limit, nil where there is none; at; bounds of the further limits; corrections, each with its event (source and
-- id), row, whether its kind may raise, whether it is replayed from a log, and the outcome of nothing that it stands on
-- where none was reported.
-- Returns how many were new; or {'content', index}, {'missing', index}, {'raised', index, response, cost},
-- {'returned', index, when} or {'room', index, what is needed, what is left, the limit or '' for the main budget}.
local contents, standing, new = {}, {}, {}
local room = CALL.limit and CALL.limit - committed() or math.huge

-- Whether the outcome of a request counts only while something is paid for it; it may be one that this call records.
local late_now = {}
local function late(request_id)
    local row = unpacked(OUTCOME, request_id)
    if row then
        return row[OUTCOME_AT.late]
    end
    return late_now[request_id]
end

for place, correction in ipairs(CALL.corrections) do
    local index, row = place - 1, correction.row
    local request_id, content = row[CORRECTION_AT.request_id], row[CORRECTION_AT.content]
    local response, cost = row[CORRECTION_AT.response], row[CORRECTION_AT.cost]
    local override = row[CORRECTION_AT.override]
    local same = contents[correction.event] or redis.call('HGET', EVENT, correction.event)
    if same then
        if same ~= content then
            return {'content', index}
        end
    else
        local before = standing[request_id] or unpacked(CORRECTION, request_id) or reported(request_id)
        if not before then
            if not override then
                return {'missing', index}
            end
            before = {0, 0}
            local until_ = redis.call('ZSCORE', HOLD, request_id)
            local expired = until_ and tonumber(until_) <= NOW
            if until_ then
                local _, reserved = side_and_reserved(request_id)
                room = room + reserved
                plan(shares(request_id), -reserved, expired and -1 or 0)
            end
            late_now[request_id] = expired or redis.call('HEXISTS', RELEASE, request_id) == 1
        end
        local more, dearer = response - before[1], cost - before[2]
        if not correction.raises and (more > 0 or dearer > 0) then
            return {'raised', index, before[1], before[2]}
        end
        local returned_at = returned(request_id)
        if dearer > 0 and not override and returned_at and not correction.replayed then
            return {'returned', index, returned_at}
        end
        if dearer > 0 and not override and dearer > room then
            return {'room', index, dearer, room, ''}
        end
        local sums, count = shares(request_id), 0
        if late(request_id) then
            count = (cost > 0 and 1 or 0) - (before[2] > 0 and 1 or 0)
        end
        if dearer > 0 and not override and CALL.limit then
            local name, rest = exceeded(sums, dearer, count > 0 and count or nil)
            if name then
                return {'room', index, dearer, rest and rest + dearer or 0, name}
            end
        end
        plan(sums, dearer, count)
        room = room - dearer
        contents[correction.event] = content
        standing[request_id] = {response, cost}
        new[#new + 1] = {correction = correction, before = before, more = more, dearer = dearer, count = count}
    end
end
for _, made in ipairs(new) do
    local correction, row, more, dearer = made.correction, made.correction.row, made.more, made.dearer
    local request_id, side = row[CORRECTION_AT.request_id], row[CORRECTION_AT.side]
    local response, cost = row[CORRECTION_AT.response], row[CORRECTION_AT.cost]
    if redis.call('HEXISTS', OUTCOME, request_id) == 0 then
        book(correction.event, row[CORRECTION_AT.content], correction.outcome, nil)
    end
    add(shares(request_id), dearer, made.count)
    redis.call('HSET', EVENT, correction.event, row[CORRECTION_AT.content])
    redis.call('HSET', CORRECTION, request_id, cmsgpack.pack({response, cost, row[CORRECTION_AT.amount]}))
    row[CORRECTION_AT.previous_response], row[CORRECTION_AT.previous_cost] = made.before[1], made.before[2]
    redis.call('RPUSH', CORRECTED, cmsgpack.pack(row))
    redis.call('HINCRBY', SUMS, row[CORRECTION_AT.kind] .. '|' .. side, 1)
    if dearer > 0 then
        redis.call('HINCRBY', SUMS, 'spent|' .. side, dearer)
        if row[CORRECTION_AT.override] then
            redis.call('HINCRBY', SUMS, 'overridden|' .. side, dearer)
        end
    elseif dearer < 0 then
        redis.call('HINCRBY', SUMS, 'refunded|' .. side, -dearer)
    end
    if more > 0 then
        redis.call('HINCRBYFLOAT', SUMS, 'responses|' .. side, string.format('%.17g', more))
    elseif more < 0 then
        redis.call('HINCRBYFLOAT', SUMS, 'withdrawn|' .. side, string.format('%.17g', -more))
    end
end
return #new
