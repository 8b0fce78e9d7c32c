# Read by CMake right after llama.cpp's own project() line (CMAKE_PROJECT_<name>_INCLUDE).
# llama-cpp-python forces LLAMA_BUILD_COMMON on in the cache, but loads only libllama and ggml;
# the `common` library is half of the compile time. A normal variable shadows the cached one.
set(LLAMA_BUILD_COMMON OFF)
set(LLAMA_BUILD_MTMD OFF)
