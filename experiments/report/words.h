// Numbers as a page says them in a sentence. Pure.
#ifndef PSRING_EXPERIMENTS_REPORT_WORDS_H_
#define PSRING_EXPERIMENTS_REPORT_WORDS_H_

#include <string>

namespace psring {

// 35447295 -> "35.4 MB": three digits, in powers of 1000.
std::string RoughBytes(double bytes);
// 0.00353 -> "3.53 ms", 89.4 -> "89.4 s".
std::string RoughSeconds(double seconds);
// 5.04 -> "5.0", 12.3 -> "12", 1.234 -> "1.23": how many times something is.
std::string Times(double ratio);
// 27483.2 -> "27,483", 12.345 -> "12.3".
std::string RoughNumber(double number);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_WORDS_H_
