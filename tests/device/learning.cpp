// All launches of learning as one file: the joined folder, and the two files that builds leave out of it.
#include <joined_folders/maniple_core_learning.cpp>

#include "src/learning/conditional_unet.cpp"
#include "src/learning/image_encoder.cpp"
