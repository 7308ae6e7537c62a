// Tells code that has to know whether it is compiled with the address sanitizer, which
// compilers say in ways of their own: PSRING_ADDRESS_SANITIZER is defined then.
#ifndef PSRING_COMMON_ADDRESS_SANITIZER_H_
#define PSRING_COMMON_ADDRESS_SANITIZER_H_

#if defined(__SANITIZE_ADDRESS__)  // gcc
#define PSRING_ADDRESS_SANITIZER
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer)
#define PSRING_ADDRESS_SANITIZER
#endif
#endif

#endif  // PSRING_COMMON_ADDRESS_SANITIZER_H_
