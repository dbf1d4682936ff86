-- KEYS: where the layout is noted, the sums. ARGV: this layout. Returns the layout that the ledger has now.
local held = redis.call('GET', KEYS[1]) or ARGV[1]
if held == ARGV[1] then
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('HSETNX', KEYS[2], 'ledger_time', now)
    redis.call('HSETNX', KEYS[2], 'server_time', now)
    redis.call('SET', KEYS[1], held)
end
return held
