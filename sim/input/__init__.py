"""From files to a scenario: reading, checking, presets."""
