# Writes the text file IN as a C string literal to OUT: cmake -DIN=a.sql -DOUT=a.sql.inc -P embed.cmake
file(READ ${IN} text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE ${OUT} "\"${text}\"\n")
