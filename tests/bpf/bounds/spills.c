/* Numbers go through the stack between the check and the use. */
#include "checks.h"

SEC("uprobe/spilled_then_checked") int spilled_then_checked(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	volatile u64 kept;
	u64 length = e->length;
	kept = length;
	UNLESS(length < 64);
	return e->bytes[kept];
}

SEC("uprobe/loaded_and_checked") int loaded_and_checked(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	volatile u64 kept = e->length;
	UNLESS(kept < 64);
	return e->bytes[kept];
}

SEC("uprobe/narrow_spill") int narrow_spill(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	volatile u32 kept;
	u32 count = e->count;
	UNLESS(count <= 12);
	kept = count;
	return e->words[kept + 3];
}

SEC("uprobe/narrow_loaded") int narrow_loaded(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	volatile u32 kept = e->count;
	UNLESS(kept <= 12);
	return e->words[kept];
}

SEC("uprobe/two_narrow") int two_narrow(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	volatile struct {
		u32 from, to;
	} range = { e->count, e->words[1] };
	UNLESS(range.from < 16 && range.to < 16);
	return e->words[range.from] + e->words[range.to];
}

SEC("uprobe/over_a_call") int over_a_call(struct pt_regs *ctx)
{
	struct entry *e = entry(2);
	if (!e)
		return 0;
	u32 count = e->count, place = e->words[0], kind = e->words[1], other = e->words[2], more = e->words[3];
	UNLESS(count < 16 && place < 16 && kind < 16 && other < 16 && more < 16);
	u64 now = bpf_ktime_get_ns();
	CROWDED();
	e = entry(3);
	if (!e)
		return 0;
	now += bpf_ktime_get_ns();
	return e->words[count] + e->words[place] + e->words[kind] + e->words[other] + e->words[more] + now;
}

SEC("uprobe/checked_after_a_call") int checked_after_a_call(struct pt_regs *ctx)
{
	u64 length = PARM1(ctx);
	u64 copy = length;
	volatile u64 kept = length;
	u64 now = bpf_ktime_get_ns();
	CROWDED();
	struct entry *e = entry(3);
	if (!e)
		return 0;
	UNLESS(copy < 50);
	return e->bytes[kept] + now;
}

char LICENSE[] SEC("license") = "GPL";
