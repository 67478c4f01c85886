/*
 * The types and the data of big.* (s390x) and little.* (x86-64), which are made by the compiler and by pahole 1.24, as
 * those of a kernel:
 *
 *     CC -c -g fields.c -o fields.o
 *     pahole --btf_encode_detached=NAME.btf fields.o
 *     OBJCOPY -O binary --only-section=.data fields.o NAME.data
 */
typedef unsigned int u32;
typedef unsigned long u64;

struct fields {
	u32 first : 3;
	u32 second : 7;
	int third : 9;
	u32 fourth : 13;
	unsigned short small : 5;
	unsigned char flag : 1;
	_Bool yes : 1;
	u64 wide : 37;
	long last : 20;
	enum kind { ZERO, SEVEN = 7 } kind : 4;
	struct {
		u32 inner : 6;
		u32 : 4;
		u32 after : 11;
	};
} __attribute__((aligned(8)));

struct packed {
	char before;
	u64 across : 61;
	u32 rest : 6;
} __attribute__((packed, aligned(8)));

struct fields fields = { 5, 100, -200, 8000, 21, 1, 1, 0x1234567895UL, -300000, SEVEN, { 33, 1500 } };
struct packed packed = { 'x', 0x123456789abcdefUL, 42 };
