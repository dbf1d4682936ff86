-- The keys of a campaign, in the order of keys.py, and what several scripts do. After them come two keys of each other
-- campaign that shares a limit: its amounts and its counts. DECISION_AT, OUTCOME_AT and CORRECTION_AT hold the place of
-- each field in a record; see rows.py.
local DECISION, HOLD, RELEASE, OUTCOME, EVENT, SUMS, DECIDED, SETTLED = unpack(KEYS, 1, 8)
local CORRECTION, CORRECTED, TRAFFIC, SHARE, AMOUNT, COUNT, MOVE, MOVED, SENT = unpack(KEYS, 9, 17)

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

-- What is called, and what the runner adds to every call when it is sent.
local CALL, STAMP = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])
local WRITER = 'writer|' .. STAMP.writer

-- Numbers of decisions, outcomes, corrections and moves.
local function records()
    return redis.call('LLEN', DECIDED), redis.call('LLEN', SETTLED), redis.call('LLEN', CORRECTED),
        redis.call('LLEN', MOVED)
end

-- Before anything is written: a store that lost records would grant their money again. Another process may have
-- written as many as were lost, so the records of this process are counted apart.
local held = {records()}
local epoch, own, newest = unpack(redis.call('HMGET', SUMS, 'epoch', WRITER, 'date'))
own = tonumber(string.match(own or '', '^%d+') or '0')
local went_back = epoch ~= STAMP.epoch or own < STAMP.own
for place, count in ipairs(held) do
    went_back = went_back or count < STAMP.counts[place]
end
if went_back then
    return {'went_back', held[1], held[2], held[3], held[4], own, 0}
end
-- Replicas agree on the date: it never goes back, and no clock of a ledger moves it beyond that of Redis.
local TOLERANCE = 300000000
newest = tonumber(newest or '0')
local far = STAMP.date > newest + TOLERANCE and STAMP.date > server_time() + TOLERANCE
if STAMP.date < newest - TOLERANCE or far then
    return {'date', whole(newest)}
end
local NOW = tick(STAMP.latest, math.max(STAMP.date, newest))

-- Note what this process has written after the script; returns the numbers of records, that of this process, and the
-- ledger time.
local function written()
    local decisions, outcomes, corrections, moves = records()
    own = own + decisions + outcomes + corrections + moves - held[1] - held[2] - held[3] - held[4]
    if own > 0 then
        redis.call('HSET', SUMS, WRITER, whole(own) .. '\n' .. whole(NOW))
    end
    return decisions, outcomes, corrections, moves, own, NOW
end

-- The most that the authorization of a decision can cost.
local function reserved_for(decision)
    return decision[DECISION_AT.incentive] * decision[DECISION_AT.most_units]
end

local function side_and_reserved(request_id)
    local decision = cmsgpack.unpack(redis.call('HGET', DECISION, request_id))
    return decision[DECISION_AT.side], reserved_for(decision)
end

local function sum(name)
    local sums = redis.call('HMGET', SUMS, name .. '|customer', name .. '|merchant')
    return tonumber(sums[1] or '0') + tonumber(sums[2] or '0')
end

-- Minor units spent and not taken back, or reserved for open authorizations.
local function committed()
    return sum('reserved') - sum('closed') + sum('spent') - sum('refunded')
end

-- The limit as moves of a portfolio have left it.
if CALL.limit then
    local moved = redis.call('HMGET', SUMS, 'received', 'given')
    CALL.limit = CALL.limit + tonumber(moved[1] or '0') - tonumber(moved[2] or '0')
end

-- Bounds of the further limits by name; others are the campaigns that share one, by their places among all that share.
local OTHERS = 18
local BOUNDS = {}
for index, bound in ipairs(CALL.bounds or {}) do
    bound.place = index - 1
    BOUNDS[bound.name] = bound
end

-- Amount and count of a sum in all campaigns that share its limit, and the count of the others.
local function used(bound, each)
    local amount = tonumber(redis.call('HGET', AMOUNT, each) or '0')
    local count, foreign = tonumber(redis.call('HGET', COUNT, each) or '0'), 0
    for _, other in ipairs(bound.others) do
        local key = OTHERS + 2 * other
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
local function exceeded(sums, amount, count)
    for _, each in ipairs(sums) do
        local name = string.match(each, '^[^|]+')
        local bound = BOUNDS[name]
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

local function release(request_ids, cause)
    local freed = 0
    for _, request_id in ipairs(request_ids) do
        if redis.call('ZREM', HOLD, request_id) == 1 then
            local side, reserved = side_and_reserved(request_id)
            redis.call('HSET', RELEASE, request_id, cause .. '\n' .. whole(CALL.at))
            redis.call('HINCRBY', SUMS, 'closed|' .. side, reserved)
            redis.call('HINCRBY', SUMS, cause .. '|' .. side, reserved)
            add(shares(request_id), -reserved, -1)
            freed = freed + 1
        end
    end
    return freed
end

local function expire(most)
    return release(redis.call('ZRANGEBYSCORE', HOLD, '-inf', whole(NOW), 'LIMIT', 0, most), 'expired')
end

-- When the authorization of a request was returned, or nil.
local function returned(request_id)
    local kept = redis.call('HGET', RELEASE, request_id)
    return kept and tonumber(string.match(kept, '^returned\n(%d+)$'))
end

local function unpacked(key, request_id)
    local kept = redis.call('HGET', key, request_id)
    return kept and cmsgpack.unpack(kept) or nil
end

-- Response, cost and amount of a request as they were reported, or nil.
local function reported(request_id)
    local row = unpacked(OUTCOME, request_id)
    return row and {row[OUTCOME_AT.response], row[OUTCOME_AT.cost], row[OUTCOME_AT.amount]}
end

-- Record an outcome and capture its cost; late says whether it is late, or is nil where the time decides.
local function book(event, content, row, late)
    local request_id, side = row[OUTCOME_AT.request_id], row[OUTCOME_AT.side]
    local response, cost = row[OUTCOME_AT.response], row[OUTCOME_AT.cost]
    -- Whether money is late is a matter of the time, and not of when the sweep last came by.
    local until_ = redis.call('ZSCORE', HOLD, request_id)
    if late or (late == nil and until_ and tonumber(until_) <= NOW) then
        release({request_id}, 'expired')
    end
    if late == nil then
        late = redis.call('HEXISTS', RELEASE, request_id) == 1
    end
    local sums = shares(request_id)
    if redis.call('ZREM', HOLD, request_id) == 1 then
        local _, reserved = side_and_reserved(request_id)
        redis.call('HINCRBY', SUMS, 'closed|' .. side, reserved)
        add(sums, cost - reserved, 0)
    else
        add(sums, cost, (not late or cost > 0) and 1 or 0)
    end
    row[OUTCOME_AT.late] = late
    redis.call('HSET', EVENT, event, content)
    redis.call('HSET', OUTCOME, request_id, cmsgpack.pack(row))
    redis.call('RPUSH', SETTLED, request_id)
    redis.call('HINCRBY', SUMS, 'outcomes|' .. side, 1)
    redis.call('HINCRBY', SUMS, 'spent|' .. side, cost)
    redis.call('HINCRBYFLOAT', SUMS, 'responses|' .. side, string.format('%.17g', response))
    redis.call('HINCRBY', SUMS, 'misdated|' .. side, row[OUTCOME_AT.misdated] and 1 or 0)
    if late then
        redis.call('HINCRBY', SUMS, 'late|' .. side, cost)
    end
end
