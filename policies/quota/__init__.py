"""The policy `quota`: how much of the cluster each user and client id may have."""
