-- ARGV: at, most. Returns how many promises were released.
return expire(ARGV[1], ARGV[2])
