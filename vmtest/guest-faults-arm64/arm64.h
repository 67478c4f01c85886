/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Included before each file of guest-faults/ for arm64: what these files take from x86-64. */

/* An undefined instruction. */
asm(".macro ud2\n"
    "	udf	#0\n"
    ".endm");
