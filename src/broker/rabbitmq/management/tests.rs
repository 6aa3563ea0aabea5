//! Stubs that answer as reported in the field.
