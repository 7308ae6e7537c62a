// A library that says which of two it is.
extern "C" int Number() {
#ifdef SECOND
  return 2;
#else
  return 1;
#endif
}
