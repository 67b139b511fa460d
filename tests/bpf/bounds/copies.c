/* A number is copied, and the copy is checked; or the number is, and the copy used. */
#include "checks.h"

SEC("uprobe/copy_checked") int copy_checked(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u64 length = e->length, copy = length;
	HIDDEN(copy);
	UNLESS(length < 64);
	return e->bytes[length] + (copy != 0);
}

SEC("uprobe/original_checked") int original_checked(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u64 copy;
	u64 length = e->length;
	asm volatile("%0 = %1" : "=r"(copy) : "r"(length));
	UNLESS(length <= 20);
	return e->bytes[copy];
}

SEC("uprobe/copy_of_copy") int copy_of_copy(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	u64 first = PARM1(ctx), second, third;
	asm volatile("%0 = %1" : "=r"(second) : "r"(first));
	asm volatile("%0 = %1" : "=r"(third) : "r"(second));
	UNLESS(second < 32);
	return e->bytes[first] + e->bytes[third];
}

SEC("uprobe/moved_copy") int moved_copy(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u64 at = PARM1(ctx), next;
	asm volatile("%0 = %1; %0 += 4" : "=r"(next) : "r"(at));
	UNLESS(next < 60 && next >= 4);
	return e->bytes[at] + e->bytes[next + 3];
}

SEC("uprobe/moved_back") int moved_back(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u64 at = PARM1(ctx), before;
	asm volatile("%0 = %1; %0 += -8" : "=r"(before) : "r"(at));
	UNLESS(before < 48);
	return e->bytes[at + 7];
}

SEC("uprobe/copy_of_32_bits") int copy_of_32_bits(struct pt_regs *ctx)
{
	struct entry *e = entry(2);
	if (!e)
		return 0;
	u64 whole = PARM1(ctx);
	u32 low = whole;
	HIDDEN(low);
	UNLESS(low < 16);
	u32 again = whole;
	return e->words[low] + again;
}

SEC("uprobe/low_half_used") int low_half_used(struct pt_regs *ctx)
{
	struct entry *e = entry(2);
	if (!e)
		return 0;
	u64 whole = PARM2(ctx);
	u32 used = whole;
	HIDDEN(used);
	u32 checked = whole;
	UNLESS(checked < 60);
	(void)checked;
	return e->bytes[(u32)whole] + (used & 1);
}

SEC("uprobe/two_indices") int two_indices(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u32 count = e->count, from = count;
	HIDDEN(from);
	UNLESS(count <= 8);
	e->words[count] = 1;
	e->bytes[count * 4] = 2;
	return e->words[count + 7];
}

SEC("uprobe/clamped") int clamped(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u64 length = e->length;
	length = BOUND(length, 63);
	HIDDEN(length);
	return e->bytes[length];
}

SEC("uprobe/equal_copies") int equal_copies(struct pt_regs *ctx)
{
	struct entry *e = entry(3);
	if (!e)
		return 0;
	u64 at = PARM1(ctx), copy;
	asm volatile("%0 = %1" : "=r"(copy) : "r"(at));
	UNLESS(at == 12 || at == 15);
	return e->bytes[copy];
}

char LICENSE[] SEC("license") = "GPL";
