// Marks a plain loop to be compiled several times, once per vector unit, and picked at
// start for the processor at hand. With contraction off (.bazelrc) all clones of an
// element-wise loop give the same bits.
#ifndef PSRING_COMMON_VECTORIZE_H_
#define PSRING_COMMON_VECTORIZE_H_

// Sanitizers instrument the resolver before their runtime is up; clang 14 has no clones.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PSRING_VECTORIZED                                                      \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), \
                 optimize("O3")))
#else
#define PSRING_VECTORIZED
#endif

#endif  // PSRING_COMMON_VECTORIZE_H_
