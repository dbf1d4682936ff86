-- ARGV: limit or '', late reserve, at, the bounds of the further limits; then per outcome event (source and id), request_id, side, response, cost,
-- content, row, whether it is late or '' where that is not known yet, and whether it is misdated. One that is known is
-- replayed from a log: it was captured, so it is captured again.
-- Returns how many were new; or {'content', index}, {'outcome', index, response, cost}, {'returned', index, when} or
-- {'room', index, what is left, the limit or '' for the main budget}.
local FIELDS = 9
local FIRST = 5
local BOUNDS = read_bounds(ARGV[4])
local limit, at = ARGV[1], ARGV[3]
local count = (#ARGV - FIRST + 1) / FIELDS
local contents, settled, new = {}, {}, {}
local room = limit ~= '' and tonumber(limit) - committed() or math.huge

-- Returns what a capture does to the room, or why it may not be.
local function capture(index, request_id, cost, known)
    local until_ = redis.call('ZSCORE', HOLD, request_id)
    local freed = 0
    if until_ then
        local _, reserved = side_and_reserved(request_id)
        freed = tonumber(reserved)
    end
    local open = until_ and tonumber(until_) > NOW
    if not open and cost > 0 and known == '' then
        local released = redis.call('HEXISTS', RELEASE, request_id) == 1
        local returned_at = returned(request_id)
        if returned_at then
            return nil, {'returned', index, returned_at}
        end
        if (released or until_) and cost > room + freed then
            return nil, {'room', index, string.format('%.0f', room + freed), ''}
        end
        if limit ~= '' and (released or until_) then
            local name, rest = exceeded(BOUNDS, shares(request_id), cost - freed, until_ and 0 or 1)
            if name then
                return nil, {'room', index, whole(rest and rest + cost or 0), name}
            end
        end
    end
    local count = 0
    if not open then
        count = (cost > 0 and 1 or 0) - (until_ and 1 or 0)
    end
    plan(shares(request_id), cost - freed, count)
    return freed - cost
end

for index = 0, count - 1 do
    local first = FIRST + index * FIELDS
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
            local standing = corrected(request_id) or known
            local as_reported = known[1] == response and known[2] == cost
            if not as_reported and (standing[1] ~= response or standing[2] ~= cost) then
                return {'outcome', index, standing[1], standing[2]}
            end
        else
            local change, refusal = capture(index, request_id, tonumber(cost), ARGV[first + 7])
            if refusal then
                return refusal
            end
            room = room + change
            contents[event] = content
            settled[request_id] = {response, cost}
            new[#new + 1] = first
        end
    end
end
for _, first in ipairs(new) do
    local event, request_id, side, response, cost, content, row, known, misdated = unpack(ARGV, first, first + 8)
    book(event, request_id, side, response, cost, content, row, at, known, misdated)
end
return #new
