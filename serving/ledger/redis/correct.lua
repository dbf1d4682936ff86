-- ARGV: limit or '', at, the bounds of the further limits; then per correction event (source and id), request_id, side, response, cost, content, kind,
-- override (0 or 1), whether its kind may raise (0 or 1), the outcome's row, whether it is misdated, JSON of
-- the correction, and whether it is replayed from a log.
-- Returns how many were new; or {'content', index}, {'missing', index}, {'raised', index, response, cost},
-- {'returned', index, when} or {'room', index, what is needed, what is left, the limit or '' for the main budget}.
local FIELDS = 13
local FIRST = 4
local BOUNDS = read_bounds(ARGV[3])
local limit, at = ARGV[1], ARGV[2]
local count = (#ARGV - FIRST + 1) / FIELDS
local contents, standing, new = {}, {}, {}
local room = limit ~= '' and tonumber(limit) - committed() or math.huge

-- Whether the outcome of a request counts only while something is paid for it; it may be one that this call records.
local late_now = {}
local function late(request_id)
    local kept = redis.call('HGET', OUTCOME, request_id)
    if kept then
        return string.match(kept, '^%d') == '1'
    end
    return late_now[request_id]
end

local function reported(request_id)
    local found = standing[request_id] or corrected(request_id)
    if not found then
        local kept = redis.call('HGET', OUTCOME, request_id)
        found = kept and {string.match(kept, '^%d\n([^\n]*)\n(%d+)\n')} or nil
    end
    return found
end

for index = 0, count - 1 do
    local first = FIRST + index * FIELDS
    local event, request_id, _, response, cost, content, _, override, raises = unpack(ARGV, first, first + 8)
    local same = contents[event] or redis.call('HGET', EVENT, event)
    if same then
        if same ~= content then
            return {'content', index}
        end
    else
        local before = reported(request_id)
        if not before then
            if override == '0' then
                return {'missing', index}
            end
            before = {'0.0', '0'}
            local until_ = redis.call('ZSCORE', HOLD, request_id)
            local expired = until_ and tonumber(until_) <= NOW
            if until_ then
                local _, reserved = side_and_reserved(request_id)
                room = room + tonumber(reserved)
                plan(shares(request_id), -tonumber(reserved), expired and -1 or 0)
            end
            late_now[request_id] = expired or redis.call('HEXISTS', RELEASE, request_id) == 1
        end
        local more = tonumber(response) - tonumber(before[1])
        local dearer = tonumber(cost) - tonumber(before[2])
        if raises == '0' and (more > 0 or dearer > 0) then
            return {'raised', index, before[1], before[2]}
        end
        local returned_at = returned(request_id)
        if dearer > 0 and override == '0' and returned_at and ARGV[first + 12] == '0' then
            return {'returned', index, returned_at}
        end
        if dearer > 0 and override == '0' and dearer > room then
            return {'room', index, string.format('%.0f', dearer), string.format('%.0f', room), ''}
        end
        local sums, count = shares(request_id), 0
        if late(request_id) then
            count = (tonumber(cost) > 0 and 1 or 0) - (tonumber(before[2]) > 0 and 1 or 0)
        end
        if dearer > 0 and override == '0' and limit ~= '' then
            local name, rest = exceeded(BOUNDS, sums, dearer, count > 0 and count or nil)
            if name then
                return {'room', index, whole(dearer), whole(rest and rest + dearer or 0), name}
            end
        end
        plan(sums, dearer, count)
        room = room - dearer
        contents[event] = content
        standing[request_id] = {response, cost}
        new[#new + 1] = {first, before, more, dearer, count}
    end
end
for _, each in ipairs(new) do
    local first, before, more, dearer, counted = unpack(each)
    local event, request_id, side, response, cost, content, kind, override = unpack(ARGV, first, first + 7)
    if redis.call('HEXISTS', OUTCOME, request_id) == 0 then
        book(event, request_id, side, '0.0', '0', content, ARGV[first + 9], at, '', ARGV[first + 10])
    end
    add(shares(request_id), dearer, counted)
    redis.call('HSET', EVENT, event, content)
    redis.call('HSET', CORRECTION, request_id, response .. '\n' .. cost)
    local row = before[1] .. '\n' .. before[2] .. '\n' .. at .. '\n' .. ARGV[first + 11]
    redis.call('RPUSH', CORRECTED, row)
    redis.call('HINCRBY', SUMS, kind .. '|' .. side, 1)
    if dearer > 0 then
        redis.call('HINCRBY', SUMS, 'spent|' .. side, string.format('%.0f', dearer))
        if override == '1' then
            redis.call('HINCRBY', SUMS, 'overridden|' .. side, string.format('%.0f', dearer))
        end
    elseif dearer < 0 then
        redis.call('HINCRBY', SUMS, 'refunded|' .. side, string.format('%.0f', -dearer))
    end
    if more > 0 then
        redis.call('HINCRBYFLOAT', SUMS, 'responses|' .. side, string.format('%.17g', more))
    elseif more < 0 then
        redis.call('HINCRBYFLOAT', SUMS, 'withdrawn|' .. side, string.format('%.17g', -more))
    end
end
return #new
