"""The command line (extra: igfl[cli]). Nothing here loads torch before it is needed."""
