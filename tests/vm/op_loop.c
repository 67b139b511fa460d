/* What the loop around each operation takes. */
#include "op.h"

#ifdef VM_MAP
INLINE u64 operation(u32 key)
{
	return key;
}
#endif
