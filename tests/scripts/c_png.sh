# libpng by its header writes a picture of a weight; the shell reads nothing back, a PNG's own bytes are looked at.
test -f /usr/include/png.h || exit 77
cat > weight.dlsh <<'END'
seed 1
extern "libpng16.so.16" header <png.h>;
extern "libc.so.6" { FILE *fopen(const char *name, const char *mode); int fclose(FILE *f); }
w = randn(16, 16)
lo, hi = w.min().item(), w.max().item()
pixels = ((w - lo) / (hi - lo) * 255).to(u8)
png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL)
info = png_create_info_struct(png)
f = fopen("weight.png", "wb")
png_init_io(png, f)
png_set_IHDR(png, info, 16, 16, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, 0, 0)
png_write_info(png, info)
for i in range(16) { png_write_row(png, pixels[i]) }
png_write_end(png, NULL)
fclose(f);
png_destroy_write_struct(new("png_struct *", png), new("png_info *", info))
image = new("png_image"); image.version = PNG_IMAGE_VERSION
png_image_begin_read_from_file(image, "weight.png")
[image.width, image.height]
back = zeros(16, 16, dtype=u8)
png_image_finish_read(image, NULL, back, 16, NULL)
(back == pixels).all().item()
END
dlsh -n --db none weight.dlsh 2>&1
head -c 8 weight.png | od -An -c
