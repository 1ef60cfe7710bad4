// ZU_HD marks the numerics that a GPU kernel calls too: one source, compiled for both, so that a rule stands in one place.
#pragma once

#if defined(__CUDACC__)
#define ZU_HD __host__ __device__
#else
#define ZU_HD
#endif
