-- CALL: limit, nil where there is none; at; bounds of the further limits; outcomes, each with its event (source and id),
-- content, row, and late, whether it is late, nil where that is not known yet. One that is known is replayed from a log:
-- it was captured, so it is captured again.
-- Returns how many were new; or {'content', index}, {'outcome', index, response, cost, amount}, {'returned', index, when} or
-- {'room', index, what is left, the limit or '' for the main budget}.
local contents, settled, new = {}, {}, {}
local room = CALL.limit and CALL.limit - committed() or math.huge

-- Returns what a capture does to the room, or why it may not be.
local function capture(index, request_id, cost, late)
    local until_ = redis.call('ZSCORE', HOLD, request_id)
    local freed = 0
    if until_ then
        local _, reserved = side_and_reserved(request_id)
        freed = reserved
    end
    local open = until_ and tonumber(until_) > NOW
    if not open and cost > 0 and late == nil then
        local released = redis.call('HEXISTS', RELEASE, request_id) == 1
        local returned_at = returned(request_id)
        if returned_at then
            return nil, {'returned', index, returned_at}
        end
        if (released or until_) and cost > room + freed then
            return nil, {'room', index, room + freed, ''}
        end
        if CALL.limit and (released or until_) then
            local name, rest = exceeded(shares(request_id), cost - freed, until_ and 0 or 1)
            if name then
                return nil, {'room', index, rest and rest + cost or 0, name}
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

for place, outcome in ipairs(CALL.outcomes) do
    local index, row = place - 1, outcome.row
    local same = contents[outcome.event] or redis.call('HGET', EVENT, outcome.event)
    if same then
        if same ~= outcome.content then
            return {'content', index}
        end
    else
        local request_id = row[OUTCOME_AT.request_id]
        local response, cost = row[OUTCOME_AT.response], row[OUTCOME_AT.cost]
        local amount = row[OUTCOME_AT.amount]
        local known = settled[request_id] or reported(request_id)
        if known then
            local standing = unpacked(CORRECTION, request_id) or known
            local as_reported = known[1] == response and known[2] == cost
            local other = amount and amount ~= known[3] and amount ~= standing[3]
            if other or (not as_reported and (standing[1] ~= response or standing[2] ~= cost)) then
                return {'outcome', index, standing[1], standing[2], standing[3] or known[3]}
            end
        else
            local change, refusal = capture(index, request_id, cost, outcome.late)
            if refusal then
                return refusal
            end
            room = room + change
            contents[outcome.event] = outcome.content
            settled[request_id] = {response, cost, amount}
            new[#new + 1] = outcome
        end
    end
end
for _, outcome in ipairs(new) do
    book(outcome.event, outcome.content, outcome.row, outcome.late)
end
return #new
