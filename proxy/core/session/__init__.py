"""One client and one broker: requests, replies, mutes, waits."""
