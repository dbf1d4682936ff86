"""Tables of S3: vouchers and sessions."""
