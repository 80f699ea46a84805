"""Pictures and pages (extra: igfl[plots])."""
