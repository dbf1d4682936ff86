"""Generated companies with files of their own, from their logs by a mapping to a service that is paced for a week."""
