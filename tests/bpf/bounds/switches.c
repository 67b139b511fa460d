/* `const volatile` variables, which are what the file says once it is loaded. */
#include "checks.h"

#ifdef UNCHECKED
u32 most = 12;
u64 length = 16;
u32 enabled = 1;
u32 rounds = 1000;
s32 shift = -1;
#else
const volatile u32 most = 12;
const volatile u64 length = 16;
const volatile u32 enabled = 0;
const volatile u32 rounds = 12;
const volatile s32 shift = 2;
#endif
const volatile u32 places[4] = { 1, 3, 5, 60 };

SEC("uprobe/dead_code") int dead_code(struct pt_regs *ctx)
{
	struct entry *e = entry(PARM1(ctx));
	if (enabled)
		return e->count;
	return 0;
}

SEC("uprobe/index_by_most") int index_by_most(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	return e->words[most];
}

SEC("uprobe/read_by_length") int read_by_length(struct pt_regs *ctx)
{
	char text[16] = {};
	bpf_probe_read_user(text, length, (void *)PARM1(ctx));
	return text[0];
}

SEC("uprobe/loop_by_rounds") int loop_by_rounds(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	u32 sum = 0;
	if (!e)
		return 0;
	for (u32 i = 0; i < rounds; i++)
		sum += e->words[i];
	return sum;
}

SEC("uprobe/shift_by") int shift_by(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	return e->words[shift + 1];
}

SEC("uprobe/bound_by_most") int bound_by_most(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u32 count = e->count;
	if (count > most)
		return 0;
	return e->words[count];
}

char LICENSE[] SEC("license") = "GPL";
