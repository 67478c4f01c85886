"""Makes real vmcores: boots Debian's kernels under QEMU, fills their memory on purpose, dumps them."""
