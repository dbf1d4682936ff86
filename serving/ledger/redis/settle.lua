-- ARGV: at; then per outcome event (source and id), request_id, side, response, cost, content, row.
-- Returns how many were new; or {'content', index}, or {'outcome', index, response, cost}.
local FIELDS = 7
local at = ARGV[1]
local count = (#ARGV - 1) / FIELDS
local contents, settled, new = {}, {}, {}
for index = 0, count - 1 do
    local first = 2 + index * FIELDS
    local event, request_id, _, response, cost, content = unpack(ARGV, first, first + 5)
    local same = contents[event] or redis.call('HGET', EVENT, event)
    if same then
        if same ~= content then
            return {'content', index}
        end
    else
        local known = settled[request_id]
        if not known then
            local kept = redis.call('HGET', OUTCOME, request_id)
            if kept then
                known = {string.match(kept, '^%d\n([^\n]*)\n(%d+)\n')}
            end
        end
        if known then
            if known[1] ~= response or known[2] ~= cost then
                return {'outcome', index, known[1], known[2]}
            end
        else
            contents[event] = content
            settled[request_id] = {response, cost}
            new[#new + 1] = first
        end
    end
end
for _, first in ipairs(new) do
    local event, request_id, side, response, cost, content, row = unpack(ARGV, first, first + 6)
    -- Whether money is late is a matter of the clock, and not of when the sweep last came by.
    local until_ = redis.call('ZSCORE', PROMISE, request_id)
    if until_ and tonumber(until_) <= tonumber(at) then
        release({request_id}, 'expired', at)
    end
    local late = redis.call('HEXISTS', RELEASE, request_id)
    if redis.call('ZREM', PROMISE, request_id) == 1 then
        local _, reserved = side_and_reserved(request_id)
        redis.call('HINCRBY', SUMS, 'closed|' .. side, reserved)
    end
    redis.call('HSET', EVENT, event, content)
    redis.call('HSET', OUTCOME, request_id, late .. '\n' .. response .. '\n' .. cost .. '\n' .. at .. '\n' .. row)
    redis.call('RPUSH', SETTLED, request_id)
    redis.call('HINCRBY', SUMS, 'outcomes|' .. side, 1)
    redis.call('HINCRBY', SUMS, 'spent|' .. side, cost)
    redis.call('HINCRBYFLOAT', SUMS, 'responses|' .. side, response)
    if late == 1 then
        redis.call('HINCRBY', SUMS, 'late|' .. side, cost)
    end
end
return #new
