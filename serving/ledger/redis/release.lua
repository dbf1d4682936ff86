-- ARGV: at; then request ids. Returns the number of authorizations released; or {'captured', request_id}.
local request_ids = {}
for index = 2, #ARGV do
    if redis.call('HEXISTS', OUTCOME, ARGV[index]) == 1 then
        return {'captured', ARGV[index]}
    end
    request_ids[index - 1] = ARGV[index]
end
return release(request_ids, 'returned', ARGV[1])
