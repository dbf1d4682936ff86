-- CALL: limit, nil where there is none; late_reserve; at; most to expire; reserved, the most that each level of each side
-- can cost; bounds of the further limits; name of the main budget; calls, rows of each. A row has the decision where the
-- budget covers it, and nothing else if it is only looked up; else spare, the fields that differ where it does not, by
-- their places; whether it may be given nothing; ttl; the sums of limits that it adds to; further, the fields that differ
-- in the decisions that are tried in turn where a place is not free; the sums of the places that the decision, each
-- of these and the spare take; and the sums by level, to whose names the recorded level is added.
-- Returns per call, by row, {what was left for it, the place of the limit that left so little, -1 for the main budget},
-- {-1, the place of the limit, the turn that was taken} where the segment or the account had no place left,
-- -1 without a ceiling, {kept = what was kept before}, or false where nothing was and nothing is recorded; or, of a
-- refused call, the place of the row whose request_id is of another account or side.
local limit = CALL.limit
-- The number of the quarter of an hour; see serving.ledger.traffic.
local QUARTER = whole(math.floor(CALL.at / 900000000))
-- The dearest level of each side, which need not be the last one.
local DEAREST = {}
for side, most in pairs(CALL.reserved) do
    DEAREST[side] = math.max(0, unpack(most))
end

-- shadowprice.decision.fit_budget: the probabilities of all levels, and of what is given instead.
local function fit_budget(probabilities, reserved, left, unpaid_allowed)
    local kept, missing = {}, 0
    for level, share in ipairs(probabilities) do
        if reserved[level] <= left then
            kept[level] = share
        else
            kept[level] = 0
            missing = missing + share
        end
    end
    if unpaid_allowed and reserved[1] == 0 then
        kept[1] = math.min(kept[1] + missing, 1)
        return kept, kept[1]
    end
    return kept, math.min(missing, 1)
end
-- Owners of the request ids: in the store, or in the calls that are not refused.
local before, owner = {}, {}
local function owner_in(decision)
    return decision[DECISION_AT.side] .. '\n' .. decision[DECISION_AT.account_id]
end
local function conflict(rows)
    local own = {}
    for index, row in ipairs(rows) do
        local request_id = row.decision[DECISION_AT.request_id]
        local kept = unpacked(DECISION, request_id)
        if kept then
            before[request_id] = kept
            own[request_id] = owner_in(kept)
        end
        local known = owner[request_id] or own[request_id]
        if known and known ~= owner_in(row.decision) then
            return index - 1
        end
        if row.ttl then
            own[request_id] = owner_in(row.decision)
        end
    end
    for request_id, mine in pairs(own) do
        owner[request_id] = mine
    end
    return nil
end
local refused = {}
for index, rows in ipairs(CALL.calls) do
    refused[index] = conflict(rows)
end
expire(CALL.most)
local function grantable()
    return limit - committed() - math.max(0, CALL.late_reserve - sum('late'))
end
local left = limit and grantable()
-- What the tightest of the limits leaves, and that limit; nil for the main budget.
local function tightest(sums)
    local least, found = left, nil
    for _, each in ipairs(sums) do
        local bound = BOUNDS[string.match(each, '^[^|]+')]
        if bound then
            local rest = math.huge
            local held, uses, foreign = used(bound, each)
            if bound.amount then
                rest = bound.amount - held
            end
            if (bound.count and uses >= bound.count) or (bound.exclusive and foreign > 0) then
                rest = math.min(rest, 0)
            end
            if rest < least then
                least, found = rest, bound
            end
        end
    end
    return math.max(least, 0), found
end
local function record(row)
    local decision = row.decision
    local request_id, side = decision[DECISION_AT.request_id], decision[DECISION_AT.side]
    local kept = before[request_id] or unpacked(DECISION, request_id)
    if kept then
        return {kept = kept}
    end
    if not row.ttl then
        return false
    end
    local answer, full, turn = -1, nil, nil
    for at, places in ipairs(row.places) do
        local over = nil
        for _, each in ipairs(places) do
            local bound = BOUNDS[string.match(each, '^[^|]+')]
            if bound and not over and select(2, used(bound, each)) >= bound.count then
                over = bound
            end
        end
        if not over then
            turn = at
            break
        end
        full = full or over
    end
    if full then
        answer = {-1, full.place, turn}
        local probabilities, wanted = decision[DECISION_AT.propensities], decision[DECISION_AT.level] + 1
        local missing = probabilities[wanted]
        probabilities[wanted] = 0
        for place, value in pairs(row.further[turn - 1] or row.spare) do
            decision[place] = value
        end
        local spare = decision[DECISION_AT.level] + 1
        if spare > 0 then
            missing = math.min(probabilities[spare] + missing, 1)
            probabilities[spare] = missing
        end
        decision[DECISION_AT.propensities], decision[DECISION_AT.propensity] = probabilities, missing
        decision[DECISION_AT.reason], decision[DECISION_AT.limited_by] = full.reason, full.name
    elseif limit then
        local remaining, found = tightest(row.sums)
        answer = {remaining, found and found.place or -1}
        if DEAREST[side] > remaining then
            local probabilities = decision[DECISION_AT.propensities]
            local fitting, spare = fit_budget(probabilities, CALL.reserved[side], remaining, row.unpaid_allowed)
            decision[DECISION_AT.propensities] = fitting
            decision[DECISION_AT.propensity] = fitting[decision[DECISION_AT.level] + 1]
            if reserved_for(decision) > remaining then
                for place, value in pairs(row.spare) do
                    decision[place] = value
                end
                decision[DECISION_AT.propensity] = spare
                decision[DECISION_AT.reason] = found and found.reason or 'budget_exhausted'
                decision[DECISION_AT.limited_by] = found and found.name or CALL.name
            end
        end
        left = left - reserved_for(decision)
    end
    -- A place is taken for good: no outcome and no expiry gives it back.
    add(row.places[turn], 0, 1)
    for _, each in ipairs(row.by_level) do
        add({each .. whole(decision[DECISION_AT.level])}, 0, 1)
    end
    local reserved = reserved_for(decision)
    local kind = side .. '|' .. whole(decision[DECISION_AT.level]) .. '|' .. decision[DECISION_AT.reason]
    redis.call('HSET', DECISION, request_id, cmsgpack.pack(decision))
    redis.call('RPUSH', DECIDED, request_id)
    redis.call('HINCRBY', TRAFFIC, side .. '|' .. QUARTER, 1)
    redis.call('HINCRBY', SUMS, 'decisions|' .. kind, 1)
    redis.call('HINCRBY', SUMS, 'authorized|' .. side, decision[DECISION_AT.incentive])
    redis.call('HINCRBY', SUMS, 'reserved|' .. side, reserved)
    if reserved ~= 0 then
        redis.call('ZADD', HOLD, whole(NOW + row.ttl), request_id)
        if #row.sums > 0 then
            redis.call('HSET', SHARE, request_id, table.concat(row.sums, '\n'))
            add(row.sums, reserved, 1)
        end
    end
    return answer
end
local answers = {}
for index, rows in ipairs(CALL.calls) do
    answers[index] = refused[index]
    if not answers[index] then
        answers[index] = {}
        for place, row in ipairs(rows) do
            answers[index][place] = record(row)
        end
    end
end
if left and left ~= grantable() then
    error('the sums have not grown by what was recorded; restore the ledger or recover it')
end
return answers
