"""Makes real vmcores: boots Debian's kernels under QEMU, fills their memory with known contents, and dumps them."""
