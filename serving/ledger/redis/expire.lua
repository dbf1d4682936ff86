-- CALL: at, most. Returns the number of authorizations released.
return expire(CALL.most)
