-- ARGV: at, most. Returns the number of authorizations released.
return expire(ARGV[1], ARGV[2])
