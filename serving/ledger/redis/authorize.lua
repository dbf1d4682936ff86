-- ARGV: limit or '', late reserve, at, most to expire, the most that each level of a customer and of a merchant can cost
-- (joined by ','), the number of rows of each call (joined by ','), the bounds of the further limits, the name of the
-- main budget as JSON; then per row request_id, account_id, side, ttl,
-- incentive, what is reserved for it, level, reason, propensity, probability of each level (joined by ','), the
-- decision's JSON up to its propensity and after its probabilities; level and the parts of the JSON of the decision
-- where the wanted level does not fit: up to its propensity, from its reason to limited_by, and after that; the sums of
-- limits that it adds to (joined by a line break).
-- A row without ttl is only looked up.
-- Returns per call, by row, what was left for it and the place of the limit that left so little, -1 for the main budget;
-- -1 without a ceiling, what was kept before, or nil where nothing was and nothing is recorded; or, of a refused call,
-- the place of the row whose request_id is of another account or side.
local FIELDS = 17
local FIRST = 10
local limit, late_reserve, at = unpack(ARGV, 1, 3)
-- The number of the quarter of an hour; see serving.ledger.traffic.
local QUARTER = whole(math.floor(tonumber(at) / 900000000))

local BOUNDS, MAIN = read_bounds(ARGV[8]), ARGV[9]

local function numbers(text)
    local found = {}
    for each in string.gmatch(text, '[^,]+') do
        found[#found + 1] = tonumber(each)
    end
    return found
end
local RESERVED = {customer = numbers(ARGV[5]), merchant = numbers(ARGV[6])}
-- The dearest level of each side, which need not be the last one.
local DEAREST = {}
for side, most in pairs(RESERVED) do
    DEAREST[side] = math.max(0, unpack(most))
end

-- shadowprice.decision.fit_budget: the probabilities of all levels, as text, and of what is given instead.
local function fit_budget(probabilities, reserved, left, unpaid_allowed)
    local kept, missing = {}, 0
    for share in string.gmatch(probabilities, '[^,]+') do
        local level = #kept + 1
        if reserved[level] <= left then
            kept[level] = share
        else
            kept[level] = '0.0'
            missing = missing + tonumber(share)
        end
    end
    if unpaid_allowed and reserved[1] == 0 then
        kept[1] = string.format('%.17g', math.min(tonumber(kept[1]) + missing, 1))
        return kept, kept[1]
    end
    return kept, string.format('%.17g', math.min(missing, 1))
end
-- Owners of the request ids: in the store, or in the calls that are not refused.
local before, owner = {}, {}
local function conflict(first, count)
    local own = {}
    for index = 0, count - 1 do
        local request_id, account_id, side, ttl = unpack(ARGV, first + index * FIELDS, first + index * FIELDS + 3)
        local mine = side .. '\n' .. account_id
        local kept = redis.call('HGET', DECISION, request_id)
        if kept then
            before[request_id] = kept
            local kept_side, kept_account = string.match(kept, '^(%a+)\n%d+\n([^\n]*)\n')
            own[request_id] = kept_side .. '\n' .. kept_account
        end
        local known = owner[request_id] or own[request_id]
        if known and known ~= mine then
            return index
        end
        if ttl ~= '' then
            own[request_id] = mine
        end
    end
    for request_id, mine in pairs(own) do
        owner[request_id] = mine
    end
    return nil
end
local calls, start = {}, FIRST
for size in string.gmatch(ARGV[7], '[^,]+') do
    local count = tonumber(size)
    calls[#calls + 1] = {first = start, count = count, refused = conflict(start, count)}
    start = start + count * FIELDS
end
expire(at, ARGV[4])
local function grantable()
    return tonumber(limit) - committed() - math.max(0, tonumber(late_reserve) - sum('late'))
end
local left = limit ~= '' and grantable() or nil
-- What the tightest of the limits leaves, and that limit; nil for the main budget.
local function tightest(sums)
    local least, found = left, nil
    for _, each in ipairs(sums) do
        local name = string.match(each, '^[^|]+')
        local bound = BOUNDS[name]
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
                least, found = rest, {name = name, place = bound.place, reason = bound.reason}
            end
        end
    end
    return math.max(least, 0), found
end
local function record(first)
    local request_id, account_id, side, ttl, incentive, reserved = unpack(ARGV, first, first + 5)
    local kept = before[request_id] or redis.call('HGET', DECISION, request_id)
    if kept then
        return kept
    end
    if ttl == '' then
        return false
    end
    local level, reason, propensity, probabilities, head, tail = unpack(ARGV, first + 6, first + 11)
    local sums = lines(ARGV[first + 16])
    local most = RESERVED[side]
    local answer = -1
    if left ~= nil then
        local remaining, limit = tightest(sums)
        answer = {remaining, limit and limit.place or -1}
        if DEAREST[side] > remaining then
            local kept, spare = fit_budget(probabilities, most, remaining, ARGV[first + 12] ~= '-1')
            probabilities = table.concat(kept, ',')
            propensity = kept[tonumber(level) + 1]
            if tonumber(reserved) > remaining then
                incentive, reserved, propensity = '0', '0', spare
                reason = limit and limit.reason or 'budget_exhausted'
                local from_reason, rest
                level, head, from_reason, rest = unpack(ARGV, first + 12, first + 15)
                local name = limit and '"' .. limit.name .. '"' or MAIN
                tail = ',"' .. reason .. '"' .. from_reason .. name .. rest
            end
        end
        left = left - tonumber(reserved)
    end
    local decision = head .. propensity .. ',[' .. probabilities .. ']' .. tail
    redis.call('HSET', DECISION, request_id, side .. '\n' .. reserved .. '\n' .. account_id .. '\n' .. decision)
    redis.call('RPUSH', DECIDED, request_id)
    redis.call('HINCRBY', TRAFFIC, side .. '|' .. QUARTER, 1)
    redis.call('HINCRBY', SUMS, 'decisions|' .. side .. '|' .. level .. '|' .. reason, 1)
    redis.call('HINCRBY', SUMS, 'authorized|' .. side, incentive)
    redis.call('HINCRBY', SUMS, 'reserved|' .. side, reserved)
    if reserved ~= '0' then
        redis.call('ZADD', HOLD, whole(NOW + ttl), request_id)
        if #sums > 0 then
            redis.call('HSET', SHARE, request_id, ARGV[first + 16])
            add(sums, tonumber(reserved), 1)
        end
    end
    return answer
end
local answers = {}
for index, call in ipairs(calls) do
    if call.refused then
        answers[index] = call.refused
    else
        local rows = {}
        for row = 1, call.count do
            rows[row] = record(call.first + (row - 1) * FIELDS)
        end
        answers[index] = rows
    end
end
if left and left ~= grantable() then
    error('the sums have not grown by what was recorded; restore the ledger or recover it')
end
return answers
