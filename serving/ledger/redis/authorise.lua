-- ARGV: ceiling or '', at, most to expire; then per entry request_id, account_id, side, expires_at,
-- incentive, what is reserved for it, level, reason and the decision when granted, level and the decision when refused.
-- Returns per entry 1 (granted), 0 (refused) or what was kept before; or {'conflict', index}.
local FIELDS = 11
local ceiling, at = ARGV[1], ARGV[2]
local count = (#ARGV - 3) / FIELDS
local before, owner = {}, {}
for index = 0, count - 1 do
    local first = 4 + index * FIELDS
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
    local first = 4 + index * FIELDS
    local request_id, account_id, side, expires_at, incentive, reserved = unpack(ARGV, first, first + 5)
    local kept = before[index] or redis.call('HGET', DECISION, request_id)
    if kept then
        answers[index + 1] = kept
    else
        local fits = left == nil or tonumber(reserved) <= math.max(left, 0)
        local level, reason, decision = ARGV[first + 6], ARGV[first + 7], ARGV[first + 8]
        if not fits then
            incentive, reserved, reason = '0', '0', 'budget_exhausted'
            level, decision = ARGV[first + 9], ARGV[first + 10]
        end
        if left ~= nil then
            left = left - tonumber(reserved)
        end
        redis.call('HSET', DECISION, request_id, side .. '\n' .. reserved .. '\n' .. account_id .. '\n' .. decision)
        redis.call('RPUSH', DECIDED, request_id)
        redis.call('ZADD', ASKED[side], at, request_id)
        redis.call('HINCRBY', SUMS, 'decisions|' .. side .. '|' .. level .. '|' .. reason, 1)
        redis.call('HINCRBY', SUMS, 'authorised|' .. side, incentive)
        redis.call('HINCRBY', SUMS, 'reserved|' .. side, reserved)
        if reserved ~= '0' then
            redis.call('ZADD', PROMISE, expires_at, request_id)
        end
        answers[index + 1] = fits and 1 or 0
    end
end
return answers
