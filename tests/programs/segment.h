/* What of weir's is mapped in this process. */
#ifndef SEGMENT_H
#define SEGMENT_H

#include <stdio.h>
#include <string.h>

/* Whether a segment of weir's is mapped that is not `other`'s; which one. */
static unsigned long segment(unsigned long other)
{
	char line[512];
	unsigned long found = 0, inode;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps))
		if (strstr(line, "/memfd:weir-segment") && sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1 && inode != other)
			found = inode;
	if (maps)
		fclose(maps);
	return found;
}

#endif
