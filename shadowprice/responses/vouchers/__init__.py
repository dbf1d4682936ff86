"""Response models of voucher sessions (S3)."""
