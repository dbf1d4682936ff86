-- CALL: at, request_ids. Returns the number of authorizations released; or {'captured', request_id}.
for _, request_id in ipairs(CALL.request_ids) do
    if redis.call('HEXISTS', OUTCOME, request_id) == 1 then
        return {'captured', request_id}
    end
end
return release(CALL.request_ids, 'returned')
