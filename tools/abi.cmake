# -DFILES=A;B;... -DOUT=FILE: writes a header that defines DL_ABI as a hash of the files' contents.
set(all "")
foreach(file ${FILES})
    file(SHA256 ${file} one)
    string(APPEND all ${one})
endforeach()
string(SHA256 abi "${all}")
file(WRITE ${OUT} "/* Made by tools/abi.cmake: a hash of the op table and the internal headers. */\n#define DL_ABI \"${abi}\"\n")
