-- The keys of a campaign, in the order of keys.py, and what several scripts do.
local DECISION, PROMISE, RELEASE, OUTCOME, EVENT, SUMS, DECIDED, SETTLED = unpack(KEYS, 1, 8)
local ASKED = {customer = KEYS[9], merchant = KEYS[10]}

local function side_and_reserved(request_id)
    return string.match(redis.call('HGET', DECISION, request_id), '^(%a+)\n(%d+)\n')
end

local function release(request_ids, cause, at)
    local freed = 0
    for _, request_id in ipairs(request_ids) do
        if redis.call('ZREM', PROMISE, request_id) == 1 then
            local side, reserved = side_and_reserved(request_id)
            redis.call('HSET', RELEASE, request_id, cause .. '\n' .. at)
            redis.call('HINCRBY', SUMS, 'closed|' .. side, reserved)
            redis.call('HINCRBY', SUMS, cause .. '|' .. side, reserved)
            freed = freed + 1
        end
    end
    return freed
end

local function expire(at, most)
    return release(redis.call('ZRANGEBYSCORE', PROMISE, '-inf', at, 'LIMIT', 0, most), 'expired', at)
end
