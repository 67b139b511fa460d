/* Numbers of 32 bits and with a sign. */
#include "checks.h"

SEC("uprobe/both_ends") int both_ends(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	s32 place = e->place;
	UNLESS(place >= 0 && place < 16);
	return e->words[place];
}

SEC("uprobe/upper_end_first") int upper_end_first(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	s32 place = e->place;
	HIDDEN(place);
	UNLESS(place <= 15);
	HIDDEN(place);
	UNLESS(place >= 0);
	HIDDEN(place);
	return e->words[place];
}

SEC("uprobe/signed_64") int signed_64(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	s64 wide = e->wide;
	HIDDEN(wide);
	UNLESS(wide < 64);
	HIDDEN(wide);
	UNLESS(wide > -1);
	HIDDEN(wide);
	return e->bytes[wide];
}

SEC("uprobe/around_zero") int around_zero(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	s32 place = e->place;
	HIDDEN(place);
	UNLESS(place >= -8);
	HIDDEN(place);
	UNLESS(place <= 7);
	HIDDEN(place);
	return e->words[place + 8];
}

SEC("uprobe/low_half_of_a_word") int low_half_of_a_word(struct pt_regs *ctx)
{
	struct entry *e = entry(0);
	if (!e)
		return 0;
	u64 id = bpf_get_current_pid_tgid();
	HIDDEN(id);
	UNLESS((u32)id < 64);
	HIDDEN(id);
	return e->bytes[(u32)id];
}

SEC("uprobe/checked_as_32_bits") int checked_as_32_bits(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	u64 whole = PARM3(ctx);
	int number = whole;
	UNLESS(number > 2 && number < 14);
	return e->words[number];
}

SEC("uprobe/bytes_and_shorts") int bytes_and_shorts(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	signed char small = e->small;
	short kind = e->kind;
	UNLESS(small >= 0 && small < 16 && kind >= 0 && kind < 16);
	return e->words[small] + e->words[kind];
}

SEC("uprobe/sum_of_two") int sum_of_two(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	u32 first = e->count, second = e->words[0];
	UNLESS(first < 30 && second < 30);
	return e->bytes[first + second];
}

SEC("uprobe/difference_bounded") int difference_bounded(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	s32 from = e->place, to = e->words[0];
	s32 between = to - from;
	UNLESS(between >= 0 && between < 64);
	return e->bytes[between];
}

SEC("uprobe/shifted") int shifted(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	u32 at = e->count;
	UNLESS(at < 256);
	return e->words[at >> 4] + e->bytes[at >> 2];
}

SEC("uprobe/high_bit") int high_bit(struct pt_regs *ctx)
{
	struct entry *e = entry(1);
	if (!e)
		return 0;
	s32 place = e->place;
#ifndef UNCHECKED
	if (place < 0)
		place = 0;
	if (place > 15)
		place = 15;
#endif
	HIDDEN(place);
	return e->words[place];
}

char LICENSE[] SEC("license") = "GPL";
