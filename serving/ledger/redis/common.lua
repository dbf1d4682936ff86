-- The keys of a campaign, in the order of keys.py, and what several scripts do. After them come two keys of each other
-- campaign that shares a limit: its amounts and its counts.
local DECISION, HOLD, RELEASE, OUTCOME, EVENT, SUMS, DECIDED, SETTLED = unpack(KEYS, 1, 8)
local CORRECTION, CORRECTED, TRAFFIC, SHARE, AMOUNT, COUNT = unpack(KEYS, 9, 14)

-- Lua writes large numbers rounded.
local function whole(number)
    return string.format('%.0f', number)
end

local function server_time()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

-- Ledger time, after it has advanced by what Redis has seen pass since any caller, but not beyond the latest that this
-- caller knows it can be. So neither a jump of Redis' clock nor a caller's clock that is too fast expires anything early.
local function tick(latest, date)
    local kept = redis.call('HMGET', SUMS, 'ledger_time', 'server_time')
    local ledger_time, seen = tonumber(kept[1]), tonumber(kept[2])
    if latest > 0 then
        local now = server_time()
        ledger_time = math.max(math.min(latest, ledger_time + now - seen), ledger_time)
        redis.call('HSET', SUMS, 'ledger_time', whole(ledger_time), 'server_time', whole(now), 'date', whole(date))
    end
    return ledger_time
end

-- Fields that the runner appends to the arguments of every call when it is sent; the last is popped first.
local DATE = tonumber(table.remove(ARGV))
local LATEST = tonumber(table.remove(ARGV))
local SEEN_OWN = tonumber(table.remove(ARGV))
local WRITER = 'writer|' .. table.remove(ARGV)
local SEEN = {}
for place = 3, 1, -1 do
    SEEN[place] = tonumber(table.remove(ARGV))
end
local SEEN_EPOCH = table.remove(ARGV)

-- Numbers of decisions, outcomes and corrections.
local function records()
    return redis.call('LLEN', DECIDED), redis.call('LLEN', SETTLED), redis.call('LLEN', CORRECTED)
end

-- Before anything is written: a store that lost records would grant their money again. Another process may have
-- written as many as were lost, so the records of this process are counted apart.
local held = {records()}
local epoch, own, newest = unpack(redis.call('HMGET', SUMS, 'epoch', WRITER, 'date'))
own = tonumber(string.match(own or '', '^%d+') or '0')
local went_back = epoch ~= SEEN_EPOCH or own < SEEN_OWN
for place, count in ipairs(held) do
    went_back = went_back or count < SEEN[place]
end
if went_back then
    return {'went_back', held[1], held[2], held[3], own, 0}
end
-- Replicas agree on the date: it never goes back, and no clock of a ledger moves it beyond that of Redis.
local TOLERANCE = 300000000
newest = tonumber(newest or '0')
if DATE < newest - TOLERANCE or (DATE > newest + TOLERANCE and DATE > server_time() + TOLERANCE) then
    return {'date', whole(newest)}
end
local NOW = tick(LATEST, math.max(DATE, newest))

-- Note what this process has written after the script; returns the numbers of records, that of this process, and the
-- ledger time.
local function written()
    local decisions, outcomes, corrections = records()
    own = own + decisions + outcomes + corrections - held[1] - held[2] - held[3]
    if own > 0 then
        redis.call('HSET', SUMS, WRITER, whole(own) .. '\n' .. whole(NOW))
    end
    return decisions, outcomes, corrections, own, NOW
end

local function side_and_reserved(request_id)
    return string.match(redis.call('HGET', DECISION, request_id), '^(%a+)\n(%d+)\n')
end

local function sum(name)
    local sums = redis.call('HMGET', SUMS, name .. '|customer', name .. '|merchant')
    return tonumber(sums[1] or '0') + tonumber(sums[2] or '0')
end

-- Minor units spent and not taken back, or reserved for open authorizations.
local function committed()
    return sum('reserved') - sum('closed') + sum('spent') - sum('refunded')
end

-- Bounds of the further limits by name, from the argument that serving.ledger.redis.limits writes; others are the
-- campaigns that share it, by the place of their first key.
local OTHERS = 15
local function read_bounds(text)
    local found, place = {}, 0
    local line = '([^\n,]+),([^\n,]+),([^\n,]*),([^\n,]*),([01]),([^\n,]*)'
    for name, reason, amount, count, exclusive, others in string.gmatch(text, line) do
        local bound = {place = place, reason = reason, amount = tonumber(amount), count = tonumber(count)}
        bound.exclusive, bound.others = exclusive == '1', {}
        for each in string.gmatch(others, '%d+') do
            bound.others[#bound.others + 1] = OTHERS + 2 * tonumber(each)
        end
        found[name] = bound
        place = place + 1
    end
    return found
end

-- Amount and count of a sum in all campaigns that share its limit, and the count of the others.
local function used(bound, each)
    local amount = tonumber(redis.call('HGET', AMOUNT, each) or '0')
    local count, foreign = tonumber(redis.call('HGET', COUNT, each) or '0'), 0
    for _, key in ipairs(bound.others) do
        amount = amount + tonumber(redis.call('HGET', KEYS[key], each) or '0')
        foreign = foreign + tonumber(redis.call('HGET', KEYS[key + 1], each) or '0')
    end
    return amount, count + foreign, foreign
end

local function lines(text)
    local found = {}
    for each in string.gmatch(text or '', '[^\n]+') do
        found[#found + 1] = each
    end
    return found
end

-- Sums of limits that an authorization adds to.
local function shares(request_id)
    return lines(redis.call('HGET', SHARE, request_id))
end

local function add(sums, amount, count)
    for _, each in ipairs(sums) do
        if amount ~= 0 then
            redis.call('HINCRBY', AMOUNT, each, whole(amount))
        end
        if count ~= 0 then
            redis.call('HINCRBY', COUNT, each, count)
        end
    end
end

-- Changes of the sums that this call will make, by sum.
local changed_amount, changed_count = {}, {}
local function plan(sums, amount, count)
    for _, each in ipairs(sums) do
        changed_amount[each] = (changed_amount[each] or 0) + amount
        changed_count[each] = (changed_count[each] or 0) + count
    end
end

-- The first limit that has no room for a change, and its amount that is left; count is nil where none is added.
local function exceeded(bounds, sums, amount, count)
    for _, each in ipairs(sums) do
        local name = string.match(each, '^[^|]+')
        local bound = bounds[name]
        if bound then
            local held, uses, foreign = used(bound, each)
            held = held + (changed_amount[each] or 0)
            uses = uses + (changed_count[each] or 0)
            if bound.amount and held + amount > bound.amount then
                return name, bound.amount - held - amount
            end
            if count and ((bound.count and uses + count > bound.count) or (bound.exclusive and foreign > 0)) then
                return name, nil
            end
        end
    end
    return nil
end

local function release(request_ids, cause, at)
    local freed = 0
    for _, request_id in ipairs(request_ids) do
        if redis.call('ZREM', HOLD, request_id) == 1 then
            local side, reserved = side_and_reserved(request_id)
            redis.call('HSET', RELEASE, request_id, cause .. '\n' .. at)
            redis.call('HINCRBY', SUMS, 'closed|' .. side, reserved)
            redis.call('HINCRBY', SUMS, cause .. '|' .. side, reserved)
            add(shares(request_id), -reserved, -1)
            freed = freed + 1
        end
    end
    return freed
end

local function expire(at, most)
    return release(redis.call('ZRANGEBYSCORE', HOLD, '-inf', whole(NOW), 'LIMIT', 0, most), 'expired', at)
end

-- When the authorization of a request was returned, or nil.
local function returned(request_id)
    local kept = redis.call('HGET', RELEASE, request_id)
    return kept and string.match(kept, '^returned\n(%d+)$')
end

-- Response and cost by the newest correction of a request, or nil.
local function corrected(request_id)
    local kept = redis.call('HGET', CORRECTION, request_id)
    return kept and {string.match(kept, '^([^\n]*)\n(%d+)$')} or nil
end

-- Record an outcome and capture its cost; known says whether it is late, or '' where the time decides.
local function book(event, request_id, side, response, cost, content, row, at, known, misdated)
    -- Whether money is late is a matter of the time, and not of when the sweep last came by.
    local until_ = redis.call('ZSCORE', HOLD, request_id)
    if known == '1' or (known == '' and until_ and tonumber(until_) <= NOW) then
        release({request_id}, 'expired', at)
    end
    local late = tonumber(known) or redis.call('HEXISTS', RELEASE, request_id)
    local sums = shares(request_id)
    if redis.call('ZREM', HOLD, request_id) == 1 then
        local _, reserved = side_and_reserved(request_id)
        redis.call('HINCRBY', SUMS, 'closed|' .. side, reserved)
        add(sums, cost - reserved, 0)
    else
        add(sums, tonumber(cost), (late == 0 or tonumber(cost) > 0) and 1 or 0)
    end
    redis.call('HSET', EVENT, event, content)
    redis.call('HSET', OUTCOME, request_id, late .. '\n' .. response .. '\n' .. cost .. '\n' .. at .. '\n' .. row)
    redis.call('RPUSH', SETTLED, request_id)
    redis.call('HINCRBY', SUMS, 'outcomes|' .. side, 1)
    redis.call('HINCRBY', SUMS, 'spent|' .. side, cost)
    redis.call('HINCRBYFLOAT', SUMS, 'responses|' .. side, response)
    redis.call('HINCRBY', SUMS, 'misdated|' .. side, misdated)
    if late == 1 then
        redis.call('HINCRBY', SUMS, 'late|' .. side, cost)
    end
end
