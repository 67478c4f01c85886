//! Registers from which frames are found, whatever the architecture calls them.

/// Registers of a CPU, of interrupted code, or with which a sleeping task continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Address of the instruction at which the code continues.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer; 0 where the architecture has none.
    pub fp: u64,
    /// Link register, which has the return address of the last call.
    pub link: u64,
    /// True for user mode.
    pub is_user: bool,
}
