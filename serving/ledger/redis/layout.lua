-- KEYS: where the layout is noted, the keys of this layout and those that it has no more, those of layouts 1, 2, … before it in the same order.
-- ARGV: this layout. Returns the layout that the ledger has now: this one, unless it is neither this nor an earlier one.
local LAYOUT = tonumber(ARGV[1])
local count = (#KEYS - 1) / LAYOUT
local SUMS, TRAFFIC, ASKED = KEYS[7], KEYS[12], {customer = KEYS[16], merchant = KEYS[17]}
local QUARTER = 900000000
local held = redis.call('GET', KEYS[1])
if not held then
    -- Layout 1 was not noted at first.
    held = redis.call('EXISTS', unpack(KEYS, 2 + count, 1 + 2 * count)) > 0 and '1' or ARGV[1]
end
local first = tonumber(held)
if first and first >= 1 and first < LAYOUT then
    for index = 2, 1 + count do
        local before = KEYS[first * count + index]
        if redis.call('EXISTS', before) == 1 then
            redis.call('RENAME', before, KEYS[index])
        end
        redis.call('SET', before, 'moved to layout ' .. ARGV[1])
    end
    if first < 2 then
        for _, side in ipairs({'customer', 'merchant'}) do
            local authorised = redis.call('HGET', SUMS, 'authorised|' .. side)
            if authorised then
                redis.call('HSET', SUMS, 'reserved|' .. side, authorised)
            end
        end
    end
    if first < 3 then
        -- Expiries were dates: ledger time starts at that of the newest decision, so that none comes early.
        local newest = 0
        for _, asked in pairs(ASKED) do
            newest = math.max(newest, tonumber(redis.call('ZREVRANGE', asked, 0, 0, 'WITHSCORES')[2] or 0))
        end
        if newest > 0 then
            redis.call('HSET', SUMS, 'ledger_time', string.format('%.0f', newest))
        end
        -- Requests were found by the times of each side; now they are counted by quarters of an hour.
        for side, asked in pairs(ASKED) do
            local first = redis.call('ZRANGE', asked, 0, 0, 'WITHSCORES')
            while first[2] do
                local quarter = math.floor(tonumber(first[2]) / QUARTER)
                local from, to = string.format('%.0f', quarter * QUARTER), string.format('%.0f', (quarter + 1) * QUARTER)
                local count = redis.call('ZCOUNT', asked, from, '(' .. to)
                redis.call('HSET', TRAFFIC, side .. '|' .. string.format('%.0f', quarter), count)
                first = redis.call('ZRANGEBYSCORE', asked, to, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
            end
            redis.call('UNLINK', asked)
        end
    end
    held = ARGV[1]
end
if held == ARGV[1] then
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('HSETNX', SUMS, 'ledger_time', now)
    redis.call('HSETNX', SUMS, 'server_time', now)
    redis.call('SET', KEYS[1], held)
end
return held
