//! The filter language shared by the screen and the command line.
