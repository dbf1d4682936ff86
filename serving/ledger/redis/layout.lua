-- KEYS: where the layout is noted, the keys of this layout, those of layout 1 in the same order. ARGV: this layout.
-- Returns the layout that the books have now: this one, unless it is neither this nor 1.
local count = (#KEYS - 1) / 2
local SUMS = KEYS[7]
local held = redis.call('GET', KEYS[1])
if not held then
    -- Layout 1 was not noted at first.
    held = redis.call('EXISTS', unpack(KEYS, 2 + count)) > 0 and '1' or ARGV[1]
end
if held == '1' then
    for index = 2, 1 + count do
        if redis.call('EXISTS', KEYS[count + index]) == 1 then
            redis.call('RENAME', KEYS[count + index], KEYS[index])
        end
        redis.call('SET', KEYS[count + index], 'moved to layout ' .. ARGV[1])
    end
    for _, side in ipairs({'customer', 'merchant'}) do
        local authorised = redis.call('HGET', SUMS, 'authorised|' .. side)
        if authorised then
            redis.call('HSET', SUMS, 'reserved|' .. side, authorised)
        end
    end
    held = ARGV[1]
end
if held == ARGV[1] then
    redis.call('SET', KEYS[1], held)
end
return held
