-- ARGV: ceiling or '', at, most to expire, the most that each level of a customer and of a merchant can cost (joined
-- by ','); then per entry request_id, account_id, side, expires_at, incentive, what is reserved for it, level, reason,
-- propensity, probability of each level (joined by ','), the decision's JSON up to its propensity and after its
-- probabilities; level and both parts of the JSON of the decision where the wanted level does not fit.
-- Returns per entry what was left for it, -1 without a ceiling, or what was kept before; or {'conflict', index}.
local FIELDS = 15
local FIRST = 6
local ceiling, at = ARGV[1], ARGV[2]
local count = (#ARGV - FIRST + 1) / FIELDS

local function numbers(text)
    local found = {}
    for each in string.gmatch(text, '[^,]+') do
        found[#found + 1] = tonumber(each)
    end
    return found
end
local RESERVED = {customer = numbers(ARGV[4]), merchant = numbers(ARGV[5])}

-- shadowprice.decision.fit_budget: the probabilities of all levels, as text, and of what is given instead.
local function fit_budget(probabilities, reserved, left)
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
    if reserved[1] == 0 then
        kept[1] = string.format('%.17g', math.min(tonumber(kept[1]) + missing, 1))
        return kept, kept[1]
    end
    return kept, string.format('%.17g', math.min(missing, 1))
end
local before, owner = {}, {}
for index = 0, count - 1 do
    local first = FIRST + index * FIELDS
    local request_id = ARGV[first]
    local mine = ARGV[first + 2] .. '\n' .. ARGV[first + 1]
    local kept = redis.call('HGET', DECISION, request_id)
    if kept then
        before[index] = kept
        local side, account_id = string.match(kept, '^(%a+)\n%d+\n([^\n]*)\n')
        owner[request_id] = side .. '\n' .. account_id
    end
    if owner[request_id] and owner[request_id] ~= mine then
        return {'conflict', index}
    end
    owner[request_id] = mine
end
expire(at, ARGV[3])
local left = nil
if ceiling ~= '' then
    left = tonumber(ceiling)
    for _, side in ipairs({'customer', 'merchant'}) do
        local sums = redis.call('HMGET', SUMS, 'reserved|' .. side, 'closed|' .. side, 'spent|' .. side)
        left = left - (tonumber(sums[1] or '0') - tonumber(sums[2] or '0')) - tonumber(sums[3] or '0')
    end
end
local answers = {}
for index = 0, count - 1 do
    local first = FIRST + index * FIELDS
    local request_id, account_id, side, expires_at, incentive, reserved = unpack(ARGV, first, first + 5)
    local kept = before[index] or redis.call('HGET', DECISION, request_id)
    if kept then
        answers[index + 1] = kept
    else
        local level, reason, propensity, probabilities, head, tail = unpack(ARGV, first + 6, first + 11)
        local most = RESERVED[side]
        answers[index + 1] = -1
        if left ~= nil then
            local remaining = math.max(left, 0)
            answers[index + 1] = remaining
            if most[#most] > remaining then
                local kept, spare = fit_budget(probabilities, most, remaining)
                probabilities = table.concat(kept, ',')
                propensity = kept[tonumber(level) + 1]
                if tonumber(reserved) > remaining then
                    incentive, reserved, reason, propensity = '0', '0', 'budget_exhausted', spare
                    level, head, tail = unpack(ARGV, first + 12, first + 14)
                end
            end
            left = left - tonumber(reserved)
        end
        local decision = head .. propensity .. ',[' .. probabilities .. ']' .. tail
        redis.call('HSET', DECISION, request_id, side .. '\n' .. reserved .. '\n' .. account_id .. '\n' .. decision)
        redis.call('RPUSH', DECIDED, request_id)
        redis.call('ZADD', ASKED[side], at, request_id)
        redis.call('HINCRBY', SUMS, 'decisions|' .. side .. '|' .. level .. '|' .. reason, 1)
        redis.call('HINCRBY', SUMS, 'authorised|' .. side, incentive)
        redis.call('HINCRBY', SUMS, 'reserved|' .. side, reserved)
        if reserved ~= '0' then
            redis.call('ZADD', PROMISE, expires_at, request_id)
        end
    end
end
return answers
