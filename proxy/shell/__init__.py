"""Sockets and Trio: small enough to read in one sitting, and stupid. It never looks inside bytes."""
