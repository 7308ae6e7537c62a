// A library that says which one it is.
extern "C" int Number() { return NUMBER; }
