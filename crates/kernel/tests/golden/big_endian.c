/*
 * The types of big_endian.btf, which is made by:
 *
 *     s390x-linux-gnu-gcc -c -gbtf big_endian.c -o big_endian.o
 *     s390x-linux-gnu-objcopy --dump-section .BTF=big_endian.btf big_endian.o
 *
 * The compiler checks what the test expects.
 */
struct inner { unsigned char first; unsigned long word; };
enum zone { ZONE_DMA, ZONE_NORMAL = 7 };
struct outer { short count; struct inner inner; struct outer *next; int array[4]; enum zone zone; };
struct outer object;

#define AT(member, offset) _Static_assert(__builtin_offsetof(struct outer, member) == (offset), #member)
AT(count, 0);
AT(inner, 8);
AT(inner.word, 16);
AT(next, 24);
AT(array, 32);
AT(zone, 48);
_Static_assert(sizeof(struct outer) == 56, "size");
