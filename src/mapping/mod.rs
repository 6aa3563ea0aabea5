//! Which table and column play which logical part, in which words states are written, and what the
//! layout allows. Layouts are TOML (`presets/`), in the vocabulary of the preset files.
